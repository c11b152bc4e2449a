"""Every run of the tests draws the same cases, so what fails once fails always.

``HYPOTHESIS_PROFILE=search pytest tests/laws`` draws new ones.
"""

import os

from hypothesis import HealthCheck, settings

COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("same", COMMON, derandomize=True)
settings.register_profile("search", COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
