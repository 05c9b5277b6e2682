//! Division by a number fixed in advance: a shift or a mask where it is a power of two.

#[derive(Clone, Copy)]
pub(super) struct Divisor {
    value: u64,
    shift: Option<u32>,
}

impl Divisor {
    pub(super) fn new(value: u64) -> Divisor {
        Divisor { value, shift: value.is_power_of_two().then(|| value.trailing_zeros()) }
    }

    #[inline]
    pub(super) fn value(self) -> u64 {
        self.value
    }

    #[inline]
    pub(super) fn quotient(self, dividend: u64) -> u64 {
        match self.shift {
            Some(shift) => dividend >> shift,
            None => dividend / self.value,
        }
    }

    #[inline]
    pub(super) fn remainder(self, dividend: u64) -> u64 {
        match self.shift {
            Some(_) => dividend & (self.value - 1),
            None => dividend % self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;

    #[test]
    fn agrees_with_plain_division() {
        for value in [1, 2, 3, 60, 64, 1000, 1 << 63, u64::MAX] {
            let divisor = Divisor::new(value);
            for dividend in [0, 1, 59, 60, 64, 1 << 40, (1 << 63) + 5, u64::MAX] {
                assert_eq!(divisor.quotient(dividend), dividend / value);
                assert_eq!(divisor.remainder(dividend), dividend % value);
            }
        }
    }
}
