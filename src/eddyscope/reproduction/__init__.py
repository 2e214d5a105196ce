"""The published study, repeated and judged claim by claim: :func:`eddyscope.reproduce`."""
