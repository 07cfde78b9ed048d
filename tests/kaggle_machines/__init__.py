"""A stand-in for Kaggle's machines, for tests: what is pushed to it really runs, isolated, with Kaggle's folders.

    with Machines(tmp_path / "kaggle", [tmp_path / "hosted"], session_limit_s=20) as machines:
        run([...], env=machines.environment())      # the real client, or kwb with SOURCE=kaggle
        machines.use(monkeypatch)                   # or: this process takes it for Kaggle
        machines.wait("tester/my-kernel")
        assert machines.kernels["tester/my-kernel"].status == "COMPLETE"

It is the practice arena with three more services (kernels, datasets, blobs), in a thread of the test's process.
Names: `machines.user` owns everything; `machines.calls("SaveKernel")`, `machines.changes()` (empty after a dry run),
`machines.refuse("gpu-sessions", times=1)` (names: `REFUSALS`), `machines.kill(ref)`, `machines.log(ref)`,
`machines.wait_for_log(ref, words)` (then `kill`: a session cut where the test wants it), `machines.working(ref)`,
`machines.spend("gpu", seconds)`, `machines.process(dataset)` (ready now). Tests that need it start with
`pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())`.

No machine here has a GPU: a session on a GPU shape runs on the CPU. Tests of a stage push to a CPU; with
`gpu_library=fake_nvml.library()` a GPU session counts `gpu_count` GPUs by NVML, none of which computes. For cut
connections put a `Cutter` or a `FaultServer(machines.url)` between, and set `http_proxy` to its address.

`kaggle_machines.talk` has the short ways to push and to ask. By hand: `python -m kaggle_machines` (see there).

How each behaviour is known: [code] read in the client, [seen] quoted from the real service, [guess] neither.

- Push: `error` in a 200 for sessions and quota [seen], in these very words [seen]; unknown sources come back in
  invalid*Sources and the push goes through without them [code, seen]; a dataset that has no ready version counts as
  unknown [guess]; retired machine shapes are replaced without a word [code], another spelling of one gets a CPU
  without a word [seen], an unknown one is an `error` [guess]; a new kernel is filed under its title's slug, whatever
  its id says [seen]; a pinned image keeps a TPU session on the CPU [seen]; a source over 1 MB is refused [seen], its
  sentence [guess]; sessions that wait in the queue count [seen]. A new slug whose push was refused may be unusable
  afterwards ("Notebook not found", status 404) [seen, twice]: `refused_slugs="burnt"`.
- A push to a running kernel: both go on, or the first is cancelled (each [seen] once): `second_push`.
- Status: QUEUED is left out of the answer [code]. A session killed by its limit or by the quota is CANCEL_ACKNOWLEDGED
  with a failure message [seen], the message for the limit [seen], for the quota [guess]. A cell that raises: ERROR
  [seen]. Unknown kernel: 403 [code].
- Cancelling by the API is denied to tokens ("kernelSessions.cancel") [seen, many]; deleting stops the session [seen].
- Output and log are empty until the session has ended [seen]; after a kill they are lost (log kept) [guess, the careful
  one; some saw them kept]: `outputs_of_killed`. A cell's failure keeps them [guess].
- /kaggle/input: new layout `competitions/<slug>`, `datasets/<owner>/<slug>`, `notebooks/<owner>/<slug>`, old one
  `<slug>` [seen]; all read-only [seen].
- Secrets are not attached to pushed notebooks; the errors' words [seen].
- Datasets: archives are unpacked into a folder of their name, mostly [seen]: `archives="kept"`; a version holds only
  what was uploaded for it [code]; downloads are denied until the first version is ready [seen]; a notebook gets the
  newest ready version [guess]; its files may appear only some time after the session has begun [seen]:
  `mount_delay_s`.
- A submission of a notebook scores the file that the version left [guess: the service runs it again].
"""

from .isolation import why_not
from .machines import Machines, log_text, notebook
from .refusals import REFUSALS

__all__ = ["REFUSALS", "Machines", "log_text", "notebook", "why_not"]
