"""Is a predictor transductive? The audit, and the experiments from which it draws its conclusion."""

from tasknorm.transduction.auditing import Audit, audit
from tasknorm.transduction.named_scorer import named_scorer, suspects
from tasknorm.transduction.scorers import ScorerAudit, ScorerError, audit_scorer

__all__ = ["Audit", "ScorerAudit", "ScorerError", "audit", "audit_scorer", "named_scorer", "suspects"]
