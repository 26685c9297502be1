"""Side by side with other accountants."""
