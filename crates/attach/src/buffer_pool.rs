//! Buffers that are used again, and a bound on how many bytes are out.

/// Buffers are kept for reuse up to this many bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Powers of two up to 64 MiB.
const CLASSES: usize = 27;

/// Free buffers by the power of two of their capacity.
#[derive(Debug)]
pub struct BufferPool {
    free: [Vec<Vec<u8>>; CLASSES],
    kept: usize,
}

impl Default for BufferPool {
    fn default() -> BufferPool {
        BufferPool { free: std::array::from_fn(|_| Vec::new()), kept: 0 }
    }
}

impl BufferPool {
    /// A buffer of `length` bytes of arbitrary content.
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = self.any(length);
        // What was as long before costs nothing.
        buffer.resize(length, 0);
        buffer
    }

    /// An empty buffer with room for `capacity` bytes.
    pub fn take_empty(&mut self, capacity: usize) -> Vec<u8> {
        let mut buffer = self.any(capacity);
        buffer.clear();
        buffer
    }

    fn any(&mut self, length: usize) -> Vec<u8> {
        let capacity = length.next_power_of_two().max(512);
        let class = capacity.trailing_zeros() as usize;
        let reused = self.free.get_mut(class).and_then(Vec::pop);
        match reused {
            Some(buffer) => {
                self.kept -= capacity;
                buffer
            }
            None => Vec::with_capacity(capacity),
        }
    }

    /// Give a buffer back.
    pub fn put(&mut self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let class = capacity.trailing_zeros() as usize;
        if capacity.is_power_of_two()
            && self.kept + capacity <= KEPT_BYTES_MAX
            && let Some(free) = self.free.get_mut(class)
        {
            self.kept += capacity;
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_and_bounded() {
        let mut pool = BufferPool::default();
        let buffer = pool.take(4096);
        let address = buffer.as_ptr();
        pool.put(buffer);
        let again = pool.take(3000);
        assert_eq!(again.as_ptr(), address);
        assert_eq!((again.len(), pool.take_empty(5000).len()), (3000, 0));
        for _ in 0..100 {
            let buffer = vec![0u8; 1 << 20];
            pool.put(buffer);
        }
        assert!(pool.kept <= KEPT_BYTES_MAX);
    }
}
