"""Published methods beside ringscope: written from their descriptions, without any product code."""
