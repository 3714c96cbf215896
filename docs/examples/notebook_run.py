import molbox_client as molbox

mb = molbox.Client()
job = mb.run("1vii.pdb", preset="quick", temperature="300 K")
print(job.id, job.status)
