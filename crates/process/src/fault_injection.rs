//! The steps of a start that can fail for want of something: processes, descriptors, memory.

/// Counts the steps. In the tests of this crate, one of them can be made to fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultInjector {
    #[cfg(test)]
    failing: Option<std::sync::Arc<InjectedFault>>,
}

impl FaultInjector {
    /// Stands before each step.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "it fails in tests")]
    pub(crate) fn take(&self) -> std::io::Result<()> {
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn take(&self) -> std::io::Result<()> {
        self.failing.as_ref().map_or(Ok(()), |failing| failing.take())
    }

    #[cfg(test)]
    pub(crate) fn failing(failing: &std::sync::Arc<InjectedFault>) -> Self {
        Self { failing: Some(std::sync::Arc::clone(failing)) }
    }
}

/// Which step fails, and how.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct InjectedFault(parking_lot::Mutex<(u32, i32)>);

#[cfg(test)]
impl InjectedFault {
    /// Has the step of that number, counted from 1, fail with an error number of the system.
    pub(crate) fn set(&self, step: u32, errno: i32) {
        *self.0.lock() = (step, errno);
    }

    /// True if there were fewer steps than that.
    pub(crate) fn is_untouched(&self) -> bool {
        self.0.lock().0 != 0
    }

    fn take(&self) -> std::io::Result<()> {
        let mut failing = self.0.lock();
        if failing.0 == 0 {
            return Ok(());
        }
        failing.0 -= 1;
        if failing.0 == 0 { Err(std::io::Error::from_raw_os_error(failing.1)) } else { Ok(()) }
    }
}
