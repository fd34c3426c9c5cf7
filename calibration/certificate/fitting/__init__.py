"""What the tests of a design say of its policies, and the levels that follow."""
