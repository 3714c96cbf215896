import molbox_client as molbox

mb = molbox.Client()  # the profile that `molboxd up` or `molbox login` wrote
job = mb.run("1vii.pdb", preset="quick")
print(job.energies().tail())
print(job.analyze(rmsd_masks=[["@CA"]]).to_pandas()["rmsd"].tail())
