"""Is a predictor transductive? The audit, and the experiments from which it draws its conclusion."""

from tasknorm.transduction.auditing import Audit, audit

__all__ = ["Audit", "audit"]
