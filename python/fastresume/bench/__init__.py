"""`fastresume bench`: compares this reader with other installed ones, on the user's own files.

Every contender (a reader that takes part) runs in processes of its own, in turns with the others. Each is
checked to deliver the same rows. `command` is the entry point. `task` says what is read, `contenders` lists
the readers, and `child` is what one process does.
"""
