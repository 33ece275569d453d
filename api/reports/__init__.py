"""Results for people: a picture in the terminal, a page in the browser."""
