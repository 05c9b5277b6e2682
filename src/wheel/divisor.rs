//! Division by an invariant integer: a shift for a power of two, otherwise a multiplication. A division instruction
//! would take as long as a compare-exchange.
//!
//! The method is that of Granlund and Montgomery (*Division by Invariant Integers using Multiplication*, 1994). The
//! reciprocal is 2^(63 + shift) / value, rounded up, where `shift` is the binary logarithm of the value, rounded up.
//! Rounding adds less than 1 to the reciprocal. So for a dividend below 2^63 it adds less than 2^-shift ≤ 1 / value to
//! the quotient, which is too little to reach the next integer. Larger dividends use a division instruction. As
//! nanoseconds, they are times after 292 years.

/// A number to divide by, with its reciprocal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    value: u64,
    /// The reciprocal; zero for a power of two.
    reciprocal: u64,
    shift: u32,
}

impl Divisor {
    /// Computes the reciprocal of `value`.
    ///
    /// # Panics
    /// Panics if `value` is zero.
    pub(crate) fn new(value: u64) -> Self {
        assert!(value > 0, "a division by zero");
        if value.is_power_of_two() {
            return Self { value, reciprocal: 0, shift: value.trailing_zeros() };
        }
        let shift = u64::BITS - value.leading_zeros();
        if shift == u64::BITS {
            // The value is larger than every dividend that is multiplied, and this reciprocal makes the quotient zero.
            return Self { value, reciprocal: 1, shift: 0 };
        }
        // The value is above 2^(shift - 1), so the reciprocal is below 2^64.
        let reciprocal = (1_u128 << (63 + shift)).div_ceil(value.into()) as u64;
        Self { value, reciprocal, shift }
    }

    #[inline]
    pub(crate) fn value(self) -> u64 {
        self.value
    }

    /// Returns the quotient, rounded down.
    #[inline]
    pub(crate) fn quotient(self, dividend: u64) -> u64 {
        if self.reciprocal == 0 {
            return dividend >> self.shift;
        }
        if dividend >> 63 != 0 {
            return self.divide(dividend);
        }
        let product = u128::from(dividend << 1) * u128::from(self.reciprocal);
        (product >> 64) as u64 >> self.shift
    }

    /// Returns the quotient, rounded up.
    #[inline]
    pub(crate) fn quotient_up(self, dividend: u64) -> u64 {
        dividend.checked_sub(1).map_or(0, |before| self.quotient(before) + 1)
    }

    #[cold]
    fn divide(self, dividend: u64) -> u64 {
        dividend / self.value
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_plain_division() {
        let mut random = fastrand::Rng::with_seed(1);
        let fixed = [1, 2, 3, 60, 64, 1000, 1_000_000, (1 << 32) - 1, 1 << 62, 1 << 63, (1 << 63) + 1, u64::MAX];
        for round in 0..20_000 {
            let value = fixed.get(round).copied().unwrap_or_else(|| random.u64(1..) >> random.u32(0..64)).max(1);
            let divisor = Divisor::new(value);
            let check = |dividend: u64| {
                assert_eq!(divisor.quotient(dividend), dividend / value, "{dividend} / {value}");
                assert_eq!(divisor.quotient_up(dividend), dividend.div_ceil(value), "{dividend} / {value}");
            };
            for dividend in [0, 1, value - 1, value, u64::MAX, (1 << 63) - 1, 1 << 63] {
                check(dividend);
            }
            for _ in 0..10 {
                let multiple = value.saturating_mul(random.u64(..) >> random.u32(0..64));
                for dividend in [multiple.saturating_sub(1), multiple, multiple.saturating_add(1)] {
                    check(dividend);
                }
                check(random.u64(..) >> random.u32(0..64));
            }
        }
    }
}
