"""What pytest does not collect here."""

collect_ignore = ["record.py"]  # it needs torch
