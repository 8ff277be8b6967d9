"""Task batches in, the bytes of a file out: pieces that are compressed, digested and counted on the way."""
