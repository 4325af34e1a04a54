"""Array types of the face stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]  # on its way through a computation; interfaces say float32
