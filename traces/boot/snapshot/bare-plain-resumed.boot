blocklab boot recording 1
kernel vmlinuz-6.1.0-56-amd64
variant snapshot
file_bytes 65241600
last_instructions 62667453
start_instructions 29016057
reads 20
11948 1
11948 8 8
11948 32 127392
11948 8
11948 8192 16
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 8192 beside
11948 4496 beside
