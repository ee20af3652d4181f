"""The name of this machine's processor, which belongs beside every measured number."""
import platform
from pathlib import Path


def cpu_name() -> str:
    """Return the processor's name as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere Python's own answer is good
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
