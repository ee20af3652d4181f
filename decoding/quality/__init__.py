"""Quality beside speed: tasks, scores, and what a difference between two loops is worth."""
