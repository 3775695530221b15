"""`holdfast selftest`: proves the promises on the user's own machine, with a real server and a scripted provider."""
