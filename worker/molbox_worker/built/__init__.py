"""Systems that another program has built: their files read, checked, and brought into our form."""
