"""What a user can cause and mend: one sentence that says what is wrong and what to do."""


class UserError(Exception):
    """Ends a command with its sentence on stderr and exit code 2, without a traceback."""
