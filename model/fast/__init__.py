"""What makes a model faster without changing what it computes. Programs use it; nobody needs to read it."""
