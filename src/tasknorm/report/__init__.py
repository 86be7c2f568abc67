"""Records of runs beside the paper's numbers: tables, average rank, claims, figures, and one page of all."""
