# SPDX-License-Identifier: MIT
from . import iris_gluon

__all__ = ["iris_gluon"]
