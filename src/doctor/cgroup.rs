//! Limits on memory, processes and processor time, from whichever control group version is mounted.

use super::Layer;
use std::path::{Path, PathBuf};

/// Version 1 writes "no limit" as a number near the largest; anything this large limits nothing.
const UNLIMITED: u64 = 1 << 60;

pub(super) fn look() -> Vec<Layer> {
    vec![
        limit("memory-limit", "memory", "memory.max", "memory.limit_in_bytes", |bytes| format!("{} MiB", bytes >> 20)),
        limit("pids-limit", "pids", "pids.max", "pids.max", |count| format!("{count} processes")),
        cpu(),
    ]
}

fn limit(name: &'static str, controller: &str, v2: &str, v1: &str, show: fn(u64) -> String) -> Layer {
    let text = read(controller, v2, v1);
    match text.as_deref().map(str::trim) {
        None => Layer::absent(name, "no control group shows it"),
        Some(text) => match text.parse::<u64>() {
            Ok(value) if value < UNLIMITED => Layer::enforced(name, show(value)),
            _ => Layer::absent(name, "unlimited"),
        },
    }
}

fn cpu() -> Layer {
    const NAME: &str = "cpu-limit";
    let share = |quota: &str, period: &str| -> Option<f64> {
        let (quota, period) = (quota.trim().parse::<f64>().ok()?, period.trim().parse::<f64>().ok()?);
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    };
    let found = match read("cpu", "cpu.max", "cpu.cfs_quota_us") {
        Some(text) => match text.trim().split_once(' ') {
            Some((quota, period)) => share(quota, period),
            None => read("cpu", "cpu.max", "cpu.cfs_period_us").and_then(|period| share(&text, &period)),
        },
        None => return Layer::absent(NAME, "no control group shows it"),
    };
    found
        .map_or_else(|| Layer::absent(NAME, "unlimited"), |cpus| Layer::enforced(NAME, format!("{cpus:.2} processors")))
}

/// The file of our own group. Inside a container the group's path may be the engine's, which is not mounted; then the
/// top of the mount is the container's group.
fn read(controller: &str, v2: &str, v1: &str) -> Option<String> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    candidates(&groups, controller, v2, v1).into_iter().find_map(|path| std::fs::read_to_string(path).ok())
}

fn candidates(groups: &str, controller: &str, v2: &str, v1: &str) -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            found.extend([top.join(path).join(v2), top.join("unified").join(path).join(v2)]);
        } else if controllers.split(',').any(|name| name == controller) {
            found.extend([top.join(controllers).join(path).join(v1), top.join(controller).join(path).join(v1)]);
        }
    }
    found.extend([top.join(v2), top.join(controller).join(v1)]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_comes_before_the_top() {
        let list = candidates("4:cpu,cpuacct:/pod/x\n0::/unit\n", "cpu", "cpu.max", "cpu.cfs_quota_us");
        let shown: Vec<_> = list.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            shown,
            [
                "/sys/fs/cgroup/cpu,cpuacct/pod/x/cpu.cfs_quota_us",
                "/sys/fs/cgroup/cpu/pod/x/cpu.cfs_quota_us",
                "/sys/fs/cgroup/unit/cpu.max",
                "/sys/fs/cgroup/unified/unit/cpu.max",
                "/sys/fs/cgroup/cpu.max",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
            ]
        );
    }
}
