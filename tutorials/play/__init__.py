"""The source of tutorials/play.html, a page on which one moves the distributions.

`python -m tutorials.play` joins page.html, style.css and the modules into that one file.
"""
