blocklab boot recording 1
kernel vmlinuz-6.1.0-56-amd64
variant snapshot
file_bytes 223064576
last_instructions 200753605
start_instructions 48991182
reads 58
6246 1
6246 8 8
6246 32 435640
6246 8
6246 8192 16
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 8192 beside
6246 1448 beside
