"""Reading a competition: from its files to what it asks for.

`layout` finds the tables, `images` picture files, `pixels` pictures written as rows; `columns` tells
what each column is for; `asked` what is to be predicted and how it is scored. `overrides` holds what
the user said instead. `competition.problem` puts them together.
"""
