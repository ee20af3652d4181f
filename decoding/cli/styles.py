"""The colours of text and tables: the draft's orange, the target's blue, green for accepted tokens.

Without colour what matters is told apart by bold, underlined and struck through.
"""
STYLES = {"draft": "\033[38;5;166m", "target": "\033[94m", "accepted": "\033[32m",
          "rejected": "\033[9;38;5;166m", "correction": "\033[1;94m", "bonus": "\033[4;94m"}
RESET = "\033[0m"
