"""What the command line needs beside the algorithms: options, streaming, traces, reports."""
