"""Articles with tags, for the tests."""
