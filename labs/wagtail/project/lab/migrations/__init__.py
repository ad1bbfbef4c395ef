"""The steps of the database, as Django writes them."""
