"""`fastresume bench`: this reader beside what else is installed, on the user's own files.

Every contender runs in processes of its own, in turns with the others, and is checked for having delivered
the same rows. `command` is the way in; `task` says what is read, `contenders` by whom, `child` what one does.
"""
