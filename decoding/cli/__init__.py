"""What the command line needs beside the algorithms: options, prompt, session,
streaming, traces, reports."""
