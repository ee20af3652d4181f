"""What the benchmark needs beside the algorithms: arms, timing, rows, tables, plots."""
