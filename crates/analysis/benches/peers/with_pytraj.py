"""cpptraj by pytraj."""

import pytraj
from common import IS_BIG, TASK, TOPOLOGY, TRAJECTORY, measured

TRAJ = pytraj.iterload(TRAJECTORY, TOPOLOGY)
SOLUTE = "::A,B" if IS_BIG else "*"
ALPHA = "(%s)&@CA" % SOLUTE


def read():
    for _ in TRAJ:
        pass
    return TRAJ.n_frames, 0.0


def rmsd():
    return TRAJ.n_frames, pytraj.rmsd(TRAJ, mask=ALPHA, ref=0).mean()


def rmsf():
    average = pytraj.mean_structure(TRAJ(rmsfit=(0, ALPHA)), mask=ALPHA)
    fitted = pytraj.Trajectory(xyz=pytraj.get_coordinates(TRAJ, mask=ALPHA, rmsfit=(0, ALPHA)), top=TRAJ.top[ALPHA])
    pytraj.superpose(fitted, ref=average)
    return TRAJ.n_frames, pytraj.rmsf(fitted)[:, 1].mean()


def distance():
    mask = "::A ::B" if IS_BIG else ":1-6 :21-26"
    return TRAJ.n_frames, pytraj.distance(TRAJ, mask, image=True).mean()


def hbond():
    """Without `image`, which takes twice as long and finds the same here."""
    script = "parm %s\ntrajin %s\nhbond HB %s\n" % (TOPOLOGY, TRAJECTORY, SOLUTE)
    state = pytraj.load_cpptraj_state(script)
    state.run()
    counts = next(data for data in state.data if data.key.endswith("[UU]"))
    return TRAJ.n_frames, counts.values.mean()


measured(globals()[TASK])
