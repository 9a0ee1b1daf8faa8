"""What frameworks are given so that they save and restore the place of the batch that was trained.

One small module for each: `lightning`, `accelerate`, `transformers`, and `dcp` for
`torch.distributed.checkpoint`. Each imports its framework, and nothing else of fastresume imports any.
"""
