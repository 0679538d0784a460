//! Bytes in pieces, cut at places that follow from the bytes.

/// Bytes that are also delivered one by one; for longer ones that takes too long.
const ONE_BY_ONE: usize = 4096;
/// Cuts of one delivery.
const CUTS: usize = 8;

/// Several ways to deliver the same bytes in pieces.
#[must_use]
pub fn deliveries(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut numbers = Numbers::of(bytes);
    let mut ways = vec![at(bytes, &numbers.below(bytes.len() + 1, CUTS))];
    // Two cuts close to each other: what waits for a second half must wait for a third as well.
    let near = numbers.below(bytes.len() + 1, 1);
    let near: Vec<usize> = near.iter().flat_map(|cut| [*cut, cut + 1, cut + 2]).collect();
    ways.push(at(bytes, &near));
    if bytes.len() <= ONE_BY_ONE {
        ways.push(bytes.chunks(1).collect());
    }
    ways
}

fn at<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| (*cut).min(bytes.len())).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect()
}

/// Numbers that follow from bytes.
#[derive(Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// FNV-1a of the bytes is where they begin.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash) | 1)
    }

    /// So many numbers below a limit that is not 0.
    #[must_use]
    pub fn below(&mut self, limit: usize, count: usize) -> Vec<usize> {
        let mut next = || {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % limit as u64).unwrap_or_default()
        };
        (0..count).map(|_| next()).collect()
    }
}
