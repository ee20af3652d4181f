"""Speed, for programs: nothing here changes what a model computes."""
