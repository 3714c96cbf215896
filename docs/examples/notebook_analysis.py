tables = job.analyze(rmsd_masks=[["@CA"]], gyration_masks=["@CA"], convergence=False).to_pandas()
for name, table in tables.items():
    print(name, table.attrs["definition"])
    print(table.describe().loc[["mean", "std", "max"]])
