blocklab boot recording 1
kernel vmlinuz-6.1.0-56-amd64
variant snapshot
file_bytes 222978560
last_instructions 200684145
start_instructions 48993918
reads 58
6491 1
6491 8 8
6491 32 435472
6491 8
6491 8192 16
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 8192 beside
6491 1280 beside
