try:
    mb.run("1vii.pdb", temprature="310 K")
except molbox.InvalidRequest as error:
    print(error)
