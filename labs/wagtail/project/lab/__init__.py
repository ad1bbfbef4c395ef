"""The site of the lab."""
