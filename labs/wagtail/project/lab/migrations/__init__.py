"""The database migrations that Django generated."""
