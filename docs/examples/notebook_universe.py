universe = job.universe()
protein = universe.select_atoms("protein")
print(len(universe.trajectory), protein.n_residues)
print([round(float(protein.radius_of_gyration()), 2) for frame in universe.trajectory[:5]])
