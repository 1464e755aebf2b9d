"""What is generated from the server's description."""
