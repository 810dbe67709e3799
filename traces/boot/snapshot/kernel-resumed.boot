blocklab boot recording 1
kernel vmlinuz-6.1.0-56-amd64
variant snapshot
file_bytes 60801536
last_instructions 58818476
start_instructions 28199786
reads 19
18947 1
18947 8 8
18947 32 118720
18947 8
18947 8192 16
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 8192 beside
18947 4016 beside
