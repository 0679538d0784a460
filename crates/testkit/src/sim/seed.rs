//! Repeatable randomness.

use fastrand::Rng;

/// The source of all randomness in a simulation. A name always gets the same numbers, whatever was
/// drawn before under others, so that a scenario stays the same even if something in it happens in
/// another order.
///
/// ```
/// use deputize_testkit::Seed;
/// let seed = Seed(7);
/// assert_eq!(seed.dice("model").u32(..), seed.dice("model").u32(..));
/// assert_ne!(seed.dice("model").u32(..), seed.dice("tool").u32(..));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the generator of this name.
    #[must_use]
    pub fn dice(self, name: &str) -> Rng {
        // FNV-1a distinguishes names; the generator does the mixing.
        let start = 0xcbf2_9ce4_8422_2325 ^ self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = name
            .bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut rng = Rng::with_seed(hash);
        // Similar seeds give similar first numbers.
        rng.u64(..);
        rng
    }
}
