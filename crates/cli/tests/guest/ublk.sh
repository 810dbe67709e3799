# Block devices by ublk: what the part says, data, file systems, faults, and every way to end.
gone() { ls /dev/ublk[bc]* 2> /dev/null && fail "left after $1"; }
attach() { blocklab attach "$@" > log 2>&1 || fail "attach $*: $(cat log)"; }

cat > told.toml << 'X'
[null]
capacity = "64MiB"
[block]
rotational = true
logical_block = "4KiB"
physical_block = "16KiB"
request_max = "128KiB"
discard_granularity = "64KiB"
X
attach told.toml --as ublk --read-ahead 512 --scheduler mq-deadline --run '. ./lib.sh
    for pair in logical_block_size=4096 physical_block_size=16384 rotational=1 fua=0 \
        max_sectors_kb=128 discard_granularity=65536 read_ahead_kb=512; do
        same $(queue $dev ${pair%=*}) ${pair#*=} $pair
    done
    queue $dev scheduler | grep -q "\[mq-deadline\]" || fail scheduler
    same $(cat /sys/block/${dev#/dev/}/size) 131072 size'
gone "the settings"

attach part.toml --as ublk --run '. ./lib.sh; verify $dev; files $dev; fio --name=l --filename=$dev \
    --direct=1 --rw=write --bs=32M --size=96M --verify=crc32c --output-format=terse > fio.log \
    || fail "large writes"'
seen discard
gone "the data"

# A disk with a write cache gets flushes and writes through it; a fault reaches the program.
attach wd-80g-5400 --as ublk --control c.sock --run '. ./lib.sh
    same "$(queue $dev write_cache)" "write back" cache; same $(queue $dev fua) 1 fua
    same $(queue $dev rotational) 1 rotational
    fio --name=f --filename=$dev --direct=1 --rw=write --bs=64k --size=1M --fsync=4 \
        --output-format=terse > fio.log || fail flushes
    fio --name=d --filename=$dev --direct=1 --sync=dsync --rw=write --bs=4k --size=16k \
        --output-format=terse > fio.log || fail dsync
    blocklab attach ctl c.sock inject error range=1MiB+4KiB op=read > /dev/null
    dd if=$dev of=/dev/null bs=4k skip=256 count=1 iflag=direct 2> /dev/null && fail "no error"
    blocklab attach ctl c.sock lift all
    dd if=$dev of=/dev/null bs=4k skip=256 count=1 iflag=direct 2> /dev/null || fail "an error"'
seen flush
gone "a disk"

attach a=part.toml b=told.toml --as ublk --read-only --run '. ./lib.sh; set -- $devs
    same $# 2 devices; same $(cat /sys/block/${2#/dev/}/ro) 1 "read only"
    dd if=/dev/zero of=$1 bs=4k count=1 oflag=direct 2> /dev/null && fail "it was written"
    dd if=$1 of=/dev/null bs=1M count=4 2> /dev/null && dd if=$2 of=/dev/null bs=1M 2> /dev/null'
gone "two devices"

# Interrupted, and killed in the middle of I/O.
for signal in INT KILL; do
    session part.toml --as ublk
    fio --name=w --filename=/dev/ublkb0 --direct=1 --ioengine=libaio --rw=randwrite --bs=4k \
        --iodepth=32 --time_based --runtime=60 --size=64M > fio.log 2>&1 &
    writer=$!
    sleep 1
    kill -$signal $server
    wait $writer
    waits 'test ! -e /dev/ublkb0'
    waits '! pidof blocklab > /dev/null'
    test $signal = KILL || gone INT
done
test -e /dev/ublkc0 || fail "the driver keeps what was killed"
blocklab doctor | grep -q "/dev/ublkc0 left of a session that was killed" || fail "doctor is silent"
attach part.toml --as ublk --run true
grep -q "removed /dev/ublkc0" log || fail "nobody says that it was removed: $(cat log)"
gone "the next session"
rmmod ublk_drv || fail "the driver is still in use"
blocklab attach part.toml --as ublk --run true > log 2>&1
same $? 3 "the exit code without ublk"
grep -q "modprobe ublk_drv" log || fail "$(cat log)"
