"""Numerics without privacy words: quadrature, convolution, roots."""
