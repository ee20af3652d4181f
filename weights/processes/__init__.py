"""Several processes for one model: started, told what to do, watched, and their shares loaded."""
